package router

// ordered is a type with an order: compare returns a value below 0 if the receiver comes first.
type ordered[T any] interface{ compare(T) int }

// offer adds v to a heap of the first n values, with the last of these at the top. The result does not depend on the order of the calls.
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

// sink restores the heap after its first element has changed.
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
