"""When something starts by itself: cron lines and their times. Pure: no clock, no store."""
