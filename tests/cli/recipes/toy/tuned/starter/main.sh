#!/bin/bash
printf "%s\n" "$@"
