"""DI-engine's names of pipelines for runs with a reward model, and for PPG."""

from ding_lite.run.serial_entry import serial_pipeline, serial_pipeline_onpolicy

serial_pipeline_onpolicy_ppg = serial_pipeline_onpolicy
serial_pipeline_reward_model_offpolicy = serial_pipeline
serial_pipeline_reward_model_onpolicy = serial_pipeline_onpolicy
