"""The topics of the store suite that the gate and the audit rest on."""
