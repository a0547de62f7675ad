// Package view is what people are shown of a running Cortex: its conversations and their turns, tasks, agents, dead letters and costs, as values for
// tables, pages and JSON. The commands and the console in the browser show the same, since both have it from here. It reads a store and a transport,
// and changes nothing.
package view
