"""The doctor's examination: facts of flows are gathered, then judged by diagnose/."""
