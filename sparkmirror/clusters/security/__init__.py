"""How a connection is secured: TLS, SASL logins, key stores and tokens."""
