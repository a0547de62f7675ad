package bench

import (
	"math"
)

// verdict compares the last third of a run's lines with the second one. A short run has no targets, and its figures are extrapolated to an hour.
func verdict(lines []SoakLine) []Figure {
	if len(lines) < 3 {
		return nil
	}
	var list []Figure
	long := lines[len(lines)-1].Seconds >= soakVerdict.Seconds()
	for _, g := range []struct {
		name, what, unit string
		of               func(SoakLine) float64
		asked            float64
	}{
		{"heap", "heap after a collection", "MB", func(l SoakLine) float64 { return l.Heap }, soakHeap},
		{"goroutines", "goroutines", "", func(l SoakLine) float64 { return float64(l.Goroutines) }, soakRoutines},
		{"rss", "memory of the process (RSS)", "MB", func(l SoakLine) float64 { return l.RSS }, 0},
	} {
		open := ""
		if !long {
			g.asked, open = 0, " (too short to judge)"
		}
		percent, hourly := growth(lines, g.of)
		list = append(list,
			Figure{Case: g.name + "_growth", What: g.what + ", last third to second", Value: percent, Unit: "%", Least: g.asked, Less: true},
			Figure{Case: g.name + "_slope", What: "the same, in an hour" + open, Value: hourly, Unit: g.unit},
		)
	}
	return list
}

// growth returns by how many percent the mean of the last third of lines exceeds that of the second, and the growth per hour.
func growth(lines []SoakLine, of func(SoakLine) float64) (percent, hourly float64) {
	third := len(lines) / 3
	mean := func(lines []SoakLine, of func(SoakLine) float64) (sum float64) {
		for _, l := range lines {
			sum += of(l) / float64(len(lines))
		}
		return sum
	}
	at := func(l SoakLine) float64 { return l.Seconds }
	second, last := lines[len(lines)-2*third:len(lines)-third], lines[len(lines)-third:]
	by := mean(last, of) - mean(second, of)
	if hours := (mean(last, at) - mean(second, at)) / 3600; hours > 0 {
		hourly = by / hours
	}
	return round(100 * ratio(by, math.Abs(mean(second, of)))), round(hourly)
}
