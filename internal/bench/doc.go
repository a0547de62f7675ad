// Package bench measures Cortex relative to its floor: the cost of the same messages without storing anything. Floor and product run in the same
// process, alternating in short pieces, so that a busy machine slows both equally; the ratio is the result.
package bench
