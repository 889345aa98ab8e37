"""Reading the parquet files of a run."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from podium import PodiumError
from podium.store.tables import read_rows


def test_a_sound_file_in_the_place_of_another_iterations_is_named(tmp_path: Path) -> None:
    file = tmp_path / "iteration-000004.parquet"
    pq.write_table(pa.table({"iteration": [4, 4], "reward": [0.0, 1.0]}), file)
    assert [row["reward"] for row in read_rows(file)] == [0.0, 1.0]
    file.rename(tmp_path / "iteration-000003.parquet")
    with pytest.raises(PodiumError, match=r"iteration-000003.parquet is damaged: it has rollouts of iteration 4\."):
        read_rows(tmp_path / "iteration-000003.parquet")
