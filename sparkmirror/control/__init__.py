"""What is done to clusters around the copying: topics now; configs, rights, heartbeats and groups later."""

from sparkmirror.control.flows import Mirror, RunOptions
from sparkmirror.control.topics import TopicControl, TopicPlan

__all__ = ["Mirror", "RunOptions", "TopicControl", "TopicPlan"]
