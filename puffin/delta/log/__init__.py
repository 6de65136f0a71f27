"""The Delta log: files, actions, checkpoints, replay."""
