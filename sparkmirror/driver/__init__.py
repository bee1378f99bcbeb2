"""The driver of a flow: owns it, opens partitions on slots, recovers what was lost, records what was proven."""

from sparkmirror.driver.conductor import Conductor
from sparkmirror.driver.flow_context import FlowPlace
from sparkmirror.driver.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.driver.moves.asking import WAIT_S, Asker, Asking, ask_or_do, carry_out_as_owner, who_asks
from sparkmirror.driver.moves.position_writing import NextPosition, take_back
from sparkmirror.driver.moves.repositioning import Repositioning
from sparkmirror.driver.moves.requests import Outcome, OwnerWork, Steps, Verb
from sparkmirror.driver.moves.wishing import RESUME, wish_outcome
from sparkmirror.driver.renewal import NewSettings

__all__ = [
    "RESUME",
    "WAIT_S",
    "Asker",
    "Asking",
    "Conductor",
    "FlowLedger",
    "FlowPlace",
    "NewSettings",
    "NextPosition",
    "Outcome",
    "OwnerWork",
    "Repositioning",
    "Steps",
    "Verb",
    "ask_or_do",
    "carry_out_as_owner",
    "ensure_compacted_topic",
    "take_back",
    "who_asks",
    "wish_outcome",
]
