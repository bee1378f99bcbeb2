"""The configuration file: text in, typed settings out."""

from sparkmirror.config.client_keys import CLIENT_KEYS, SECURITY_KEYS
from sparkmirror.config.connect_transforms import ConnectPredicate, ConnectTransform
from sparkmirror.config.keys import CONNECTOR_KEYS, DRIVER_KEYS, FLOW_KEYS, WORKER_KEYS, Key, Kind, Scope
from sparkmirror.config.reloading import KeyChange, ReloadKind, merge, taken
from sparkmirror.config.secrets import HIDDEN, Secret
from sparkmirror.config.settings import (
    SentSettings,
    choose_flow,
    choose_flows,
    load,
    load_option,
    parse,
    read_content,
    require_enabled_flow,
    resolved_texts,
    shown_connector_texts,
)
from sparkmirror.config.transforms import TransformSettings
from sparkmirror.config.values import ClusterSettings, FlowSettings, Settings

__all__ = [
    "CLIENT_KEYS",
    "CONNECTOR_KEYS",
    "DRIVER_KEYS",
    "FLOW_KEYS",
    "HIDDEN",
    "SECURITY_KEYS",
    "WORKER_KEYS",
    "ClusterSettings",
    "ConnectPredicate",
    "ConnectTransform",
    "FlowSettings",
    "Key",
    "KeyChange",
    "Kind",
    "ReloadKind",
    "Scope",
    "Secret",
    "SentSettings",
    "Settings",
    "TransformSettings",
    "choose_flow",
    "choose_flows",
    "load",
    "load_option",
    "merge",
    "parse",
    "read_content",
    "require_enabled_flow",
    "resolved_texts",
    "shown_connector_texts",
    "taken",
]
