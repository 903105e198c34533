"""Why a run waits, has failed, was lost or is silent: one sentence, one action, one line that shows it."""
