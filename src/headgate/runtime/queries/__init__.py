"""Questions about live keyed state, one key at a time: asked in the driver, answered by the key's subtask."""
