from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
# Extras of dizoo's environments; those of the tests are wheels of a few MB.
BOX2D = ['box2d>=2.3.10; python_version < "3.14"']  # the extra of gymnasium installs a compiler too
MINIGRID = ["minigrid>=3.0"]
OFFLINE = ["h5py>=3.10", "minari>=0.5.4"]  # data sets in HDF5 files, and Minari's
# 300 MB of wheels, 740 MB installed, mostly robots; therefore not an extra of the tests, which skip it if it is missing
ENVPOOL = ["envpool>=1.2"]
LIGHTNING = ["lightning>=2.4"]
COMPLETION = ["shtab>=1.7"]  # completion of the command line in bash and zsh
VIDEO = ["moviepy>=2"]  # its wheels contain ffmpeg
SWEEP = ["optuna>=4.9"]
SLURM = ["submitit>=1.5"]
NOTEBOOK = ["nbclient>=0.10", "nbformat>=5.10", "ipykernel>=6.29"]
WANDB = ["wandb>=0.31"]  # older ones have no finish_timeout
TOGETHER = ["greenlet>=3.1"]  # several runs in one thread
RAY = ["ray>=2.52"]  # without its extras: actors need the core alone
MLFLOW = ["mlflow-skinny>=3.17", "sqlalchemy>=2", "alembic>=1.13"]  # the others for a local database
ONNX = ["onnx>=1.17", "onnxscript>=0.5", "onnxruntime>=1.20"]

setup(
    name="ding_lite",
    version="0.1.0",
    description="Config-driven reinforcement learning, the same on one process and on many",
    long_description=(here / "README.md").read_text() if (here / "README.md").exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["ding_lite", "ding_lite.*", "dizoo", "dizoo.*"]),
    python_requires=">=3.11",
    install_requires=[
        "torch>=2.6",
        "gymnasium[classic-control]>=1.3",
        "ale-py>=0.12.1",
        "easydict>=1.13",
        "tensorboardX>=2.6",
        "numpy>=1.26",
        "tqdm>=4.66",
    ],
    extras_require={
        "test": [
            "pytest>=8,<9.2",  # pytest-xdist 3.8 loses the groups of tests/conftest.py with 9.2
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.7",
            "ruff>=0.6",
            "mypy>=1.11",
            "jedi>=0.19",
            "types-tqdm>=4.66",
            *BOX2D,
            *MINIGRID,
            *OFFLINE,
            *LIGHTNING,
            *COMPLETION,
            *VIDEO,
            *ONNX,
            *SWEEP,
            *SLURM,
            *NOTEBOOK,
            *WANDB,
            *MLFLOW,
            *RAY,
            *TOGETHER,
        ],
        "docs": ["sphinx>=8.1", "myst-parser>=4", "furo>=2024.8.6"],
        "completion": COMPLETION,
        "plot": ["matplotlib>=3.8", "scipy>=1.11"],
        "box2d": BOX2D,
        "envpool": ENVPOOL,
        "mujoco": ["gymnasium[mujoco]>=1.3"],
        "brax": ["brax>=0.14.2", "jax>=0.6"],  # 900 MB installed; the tests skip it if it is missing
        "playground": ["playground>=0.2"],  # with Brax, JAX and Warp: 1.3 GB installed; likewise
        # FetchReach of 1.4.2 fails an assertion with mujoco 3.17 and 4.0, and runs with 3.3; tests skip what is missing
        "robotics": ["gymnasium-robotics>=1.4.2", "mujoco>=3.3,<3.4"],
        "vmas": ["vmas>=1.5.2"],  # with gym, 17 MB installed; the tests skip it if it is missing
        "minigrid": MINIGRID,
        "lbforaging": ["lbforaging>=2.0"],
        "bsuite": ["bsuite>=0.3.6"],
        "procgen": ["procgen-mirror>=0.10.7"],  # Procgen with wheels for newer versions of Python; asks for numpy 1
        "pettingzoo": ["pettingzoo>=1.25", "mpe2>=1.0", "pygame-ce>=2.5"],  # the games import pygame
        "offline": OFFLINE,
        "lightning": LIGHTNING,
        "together": TOGETHER,
        "video": VIDEO,
        "onnx": ONNX,
        "sweep": SWEEP,
        "slurm": SLURM,
        "wandb": WANDB,
        "mlflow": MLFLOW,
        "ray": RAY,
    },
    entry_points={"console_scripts": ["ding_lite=ding_lite.cli.main:main"]},
)
