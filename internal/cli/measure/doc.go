// Package measure is `cortex bench`: its commands, each with its flags and its bounds, which print what package bench measures.
package measure
