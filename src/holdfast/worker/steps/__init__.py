"""Steps: how an attempt is begun, performed, contained and told apart from what another may mend."""
