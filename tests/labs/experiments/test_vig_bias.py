"""The heat map and the network of the trial on biased pictures."""

import numpy as np
import torch

from podium.labs.experiments.vig_bias import SIDE, DigitClassifier, draw_pictures, grad_cam, train_classifier


def test_marks_agree_with_the_class_as_often_as_asked():
    pictures = draw_pictures(400, 0.9, "t")
    assert 0.85 < float((pictures.label == pictures.mark).float().mean()) < 0.95
    corners = [pictures.x[:, 0, i : i + 3 or None, j : j + 3 or None].amin((1, 2)) for i in (0, -3) for j in (0, -3)]
    assert torch.equal(torch.stack(corners).amax(0) == 1.0, pictures.mark.bool())


def test_heat_is_where_the_output_comes_from():
    model = DigitClassifier(2)
    for p in model.parameters():
        torch.nn.init.zeros_(p)
    for layer, channel in ((0, 0), (3, 0), (5, 0)):  # the first channel passes the picture on
        model.block[layer].weight.data[channel, 0, 1, 1] = 1.0
    model.top.weight.data[1, 0] = 1.0
    x = torch.zeros(1, 1, SIDE, SIDE)
    x[0, 0, 4, 12] = 1.0
    heat = grad_cam(model, x, torch.tensor([1]))
    place = np.unravel_index(int(heat[0].argmax()), (SIDE, SIDE))
    assert abs(place[0] - 4) <= 1
    assert abs(place[1] - 12) <= 1
    assert float(grad_cam(model, x, torch.tensor([0])).abs().max()) == 0.0


def test_group_weights_change_what_is_learnt():
    pictures = draw_pictures(200, 0.9, "t")
    plain = train_classifier(pictures.x, pictures.label, 2, 1, 0)
    group = torch.tensor(pictures.group)
    by_group = train_classifier(pictures.x, pictures.label, 2, 1, 0, group)
    assert not torch.equal(plain.top.weight, by_group.top.weight)
    assert torch.equal(by_group.top.weight, train_classifier(pictures.x, pictures.label, 2, 1, 0, group).top.weight)
