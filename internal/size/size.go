// Package size formats numbers of bytes for people.
package size

import "fmt"

var units = []string{"bytes", "kB", "MB", "GB", "TB", "PB", "EB"}

// Text formats n bytes briefly, with decimal units: 14 kB.
func Text(n int64) string {
	f, unit := float64(n), 0
	for ; f >= 999.5 && unit < len(units)-1; unit++ {
		f /= 1000
	}
	if unit > 0 && f < 9.95 {
		return fmt.Sprintf("%.1f %s", f, units[unit])
	}
	return fmt.Sprintf("%.0f %s", f, units[unit])
}
