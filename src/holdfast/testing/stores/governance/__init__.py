"""The topics of the store suite for the gate and the audit."""
