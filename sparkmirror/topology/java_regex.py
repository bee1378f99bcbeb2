"""Java regular expressions for names. They live in `config`, which must refuse a wrong one before anything runs."""

from sparkmirror.config.java_regex import JavaPattern, RegexRefused, compile_java, compile_list

__all__ = ["JavaPattern", "RegexRefused", "compile_java", "compile_list"]
