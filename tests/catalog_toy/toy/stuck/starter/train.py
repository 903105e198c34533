"""Never a step further: it waits for its end."""

import time

time.sleep(600)
