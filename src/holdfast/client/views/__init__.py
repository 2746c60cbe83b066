"""What command line, server and console show alike: rows and journals as records and timelines, without secrets."""
