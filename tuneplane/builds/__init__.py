"""Making images: from a definition, an archive or another image, on this machine or as a job."""
