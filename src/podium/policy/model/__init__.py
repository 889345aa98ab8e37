"""Loading and saving models, chat templates, LoRA adapters, devices and precisions. Start with `load.py`."""
