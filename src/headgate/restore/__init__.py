"""Plans a restore: where a job continues, and which subtask gets which stored state. It reads no state."""
