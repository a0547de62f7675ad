package storetest

import (
	"fmt"
	"testing"

	"github.com/cortex-orchestrator/cortex/cortex/storage"
)

// Bench measures the stores that open makes: appends to an empty log and after 10,000 entries, cold loads, and listing
// 10,000 conversations. An append should cost the same at any length.
func Bench(b *testing.B, open func(b *testing.B) storage.Store) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("append behind %d", n), func(b *testing.B) {
			s := open(b)
			last := fill(b, s, "", "c", n)[n-1]
			e := entry(1, "a message of ordinary length, as people write them")
			b.ReportAllocs()
			for b.Loop() {
				v, err := s.Append(b.Context(), "", "c", last, e)
				if err != nil {
					b.Fatal(err)
				}
				last = v
			}
		})
	}
	long := open(b)
	for _, n := range []int{10, 1000, 10_000} {
		id := fmt.Sprintf("c-%d", n)
		fill(b, long, "", id, n)
		b.Run(fmt.Sprintf("load %d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wantSeqs(b, load(b, long, "", id, 0), 1, uint64(n))
			}
		})
	}
	many := open(b)
	for i := range 10_000 {
		fill(b, many, "", fmt.Sprintf("c-%d", i), 2)
	}
	for _, n := range []int{20, 10_000} {
		b.Run(fmt.Sprintf("first %d of 10000 contexts", n), func(b *testing.B) {
			for b.Loop() {
				seen := 0
				for _, err := range many.Contexts(b.Context(), "") {
					if err != nil {
						b.Fatal(err)
					}
					if seen++; seen == n {
						break
					}
				}
				if seen != n {
					b.Fatalf("listed %d conversations, want %d", seen, n)
				}
			}
		})
	}
}
