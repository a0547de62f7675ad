package recent

// Shares is a cache that many owners fill together. When it has too many values, whoever has most loses the oldest of theirs, so that nobody pushes out
// what others have. The zero value is empty. It is not safe for concurrent use.
type Shares[O, K comparable, V any] struct {
	of map[O]*Cache[K, V]
	n  int // values of all owners
}

// Put stores an owner's value, replacing the one with the same key, and drops values until there are at most most.
func (s *Shares[O, K, V]) Put(of O, k K, v V, most int) {
	own := s.of[of]
	if own == nil {
		if s.of == nil {
			s.of = map[O]*Cache[K, V]{}
		}
		own = &Cache[K, V]{}
		s.of[of] = own
	}
	before := own.Len()
	own.Put(k, v, 1)
	for s.n += own.Len() - before; s.n > most; {
		s.drop()
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
	own := s.of[of]
	if own == nil {
		return v, false
	}
	if v, ok = own.Take(k); ok {
		s.less(of)
	}
	return v, ok
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

// Len returns the number of values.
func (s *Shares[O, K, V]) Len() int { return s.n }

// drop removes the oldest value of the owner who has most.
func (s *Shares[O, K, V]) drop() {
	var most O
	n := 0
	for of, own := range s.of {
		if own.Len() > n {
			most, n = of, own.Len()
		}
	}
	s.of[most].Drop()
	s.less(most)
}

// less takes note that an owner has lost a value.
func (s *Shares[O, K, V]) less(of O) {
	if s.n--; s.of[of].Len() == 0 {
		delete(s.of, of)
	}
}
