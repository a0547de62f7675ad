// Package bench measures Cortex beside its floor: what the same messages cost without anything being kept. Floor and product run in
// the same process, one after the other in short pieces, so that a busy machine slows both alike; the ratio is the result.
package bench
