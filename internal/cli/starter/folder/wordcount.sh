#!/bin/sh
# The program of an agent: a task's text comes on standard input, and what is
# printed is the result.
echo "counting" >&2 # each line on standard error is shown as progress
wc -w
