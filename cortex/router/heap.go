package router

// ordered compares with others of its kind: below 0 comes first.
type ordered[T any] interface{ compare(T) int }

// offer adds v to a heap of the n that come first, with the last of them on top. What it drops does not depend on the order
// in which they come.
func offer[T ordered[T]](h []T, n int, v T) []T {
	if len(h) == n {
		if v.compare(h[0]) < 0 {
			h[0] = v
			sink(h)
		}
		return h
	}
	h = append(h, v)
	for i := len(h) - 1; i > 0 && h[i].compare(h[(i-1)/2]) > 0; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	return h
}

// sink moves the first down to its place in a heap.
func sink[T ordered[T]](h []T) {
	for i := 0; ; {
		k := 2*i + 1
		if k >= len(h) {
			return
		}
		if k+1 < len(h) && h[k+1].compare(h[k]) > 0 {
			k++
		}
		if h[k].compare(h[i]) <= 0 {
			return
		}
		h[i], h[k] = h[k], h[i]
		i = k
	}
}
