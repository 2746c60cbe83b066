"""Steps: how an attempt is begun, performed and contained, and which of its errors another attempt may mend."""
