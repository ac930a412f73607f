"""The config files of this package, whose dicts are its names."""

from dizoo.exports import export_configs

export_configs(__name__)
