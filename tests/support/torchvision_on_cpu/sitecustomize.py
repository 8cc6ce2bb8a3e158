"""Run by every Python process that finds this folder in PYTHONPATH: makes torchvision importable."""

import torchvision_cpu

torchvision_cpu.load()
