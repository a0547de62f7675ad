package recent

import "container/heap"

// Shares is a cache that many owners fill together. When their values are too large together, whoever has most loses the oldest of theirs, so that nobody
// pushes out what others have. The zero value is empty. It is not safe for concurrent use.
type Shares[O, K comparable, V any] struct {
	of   map[O]*share[O, K, V]
	all  bySize[O, K, V] // a heap of the same
	n    int             // values of all owners
	size int             // of them
}

// share is what an owner has.
type share[O, K comparable, V any] struct {
	Cache[K, V]
	of O
	at int // in the heap
}

// Put stores an owner's value of some size, above 0, replacing the one with the same key, and drops values until all have at most a size of most.
func (s *Shares[O, K, V]) Put(of O, k K, v V, size, most int) {
	own := s.of[of]
	if own == nil {
		if s.of == nil {
			s.of = map[O]*share[O, K, V]{}
		}
		own = &share[O, K, V]{of: of}
		s.of[of] = own
		heap.Push(&s.all, own)
	}
	s.change(own, func() { own.Put(k, v, size) })
	for s.size > most {
		s.Drop(s.all[0].of)
	}
}

// Get returns an owner's value, and makes it the latest of theirs.
func (s *Shares[O, K, V]) Get(of O, k K) (v V, ok bool) {
	if own := s.of[of]; own != nil {
		return own.Get(k)
	}
	return v, false
}

// Take removes and returns an owner's value.
func (s *Shares[O, K, V]) Take(of O, k K) (v V, ok bool) {
	if own := s.of[of]; own != nil {
		s.change(own, func() { v, ok = own.Take(k) })
	}
	return v, ok
}

// Drop removes the oldest value of an owner. It panics if the owner has none.
func (s *Shares[O, K, V]) Drop(of O) {
	own := s.of[of]
	s.change(own, own.Drop)
}

// Forget removes all values of an owner.
func (s *Shares[O, K, V]) Forget(of O) {
	if own := s.of[of]; own != nil {
		s.change(own, func() { own.Cache = Cache[K, V]{} })
	}
}

// Values returns an owner's values, the latest first.
func (s *Shares[O, K, V]) Values(of O) []V {
	if own := s.of[of]; own != nil {
		return own.Values()
	}
	return nil
}

// Owners returns who has a value with a key.
func (s *Shares[O, K, V]) Owners(k K) (all []O) {
	for of, own := range s.of {
		if _, ok := own.byKey[k]; ok {
			all = append(all, of)
		}
	}
	return all
}

// Has returns the number of an owner's values, and their size.
func (s *Shares[O, K, V]) Has(of O) (n, size int) {
	if own := s.of[of]; own != nil {
		return own.Len(), own.Size()
	}
	return 0, 0
}

// Len returns the number of values.
func (s *Shares[O, K, V]) Len() int { return s.n }

// Size returns the sum of the values' sizes.
func (s *Shares[O, K, V]) Size() int { return s.size }

// change calls f, which changes what an owner has, and takes note of it.
func (s *Shares[O, K, V]) change(own *share[O, K, V], f func()) {
	n, size := own.Len(), own.Size()
	f()
	s.n += own.Len() - n
	s.size += own.Size() - size
	if heap.Fix(&s.all, own.at); own.Len() == 0 {
		heap.Remove(&s.all, own.at)
		delete(s.of, own.of)
	}
}

// bySize is a heap for package container/heap: whoever has most is the first.
type bySize[O, K comparable, V any] []*share[O, K, V]

func (b bySize[O, K, V]) Len() int           { return len(b) }
func (b bySize[O, K, V]) Less(i, j int) bool { return b[i].size > b[j].size }
func (b bySize[O, K, V]) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].at, b[j].at = i, j
}

// Push implements [heap.Interface].
func (b *bySize[O, K, V]) Push(x any) {
	own := x.(*share[O, K, V])
	own.at = len(*b)
	*b = append(*b, own)
}

// Pop implements [heap.Interface].
func (b *bySize[O, K, V]) Pop() any {
	last := len(*b) - 1
	own := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return own
}
