// Package tests tries Cortex from outside, as its users meet it: the program on a terminal and in scripts, processes that are killed, other
// people's clients and servers, and what the repository promises of itself, such as the directions between its packages and the commands in its
// README. Its tests run in the root of the repository.
package tests
