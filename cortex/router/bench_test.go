package router_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// synthetic makes cards and requests of invented words with realistic frequencies.
type synthetic struct {
	r     *rand.Rand
	zipf  *rand.Zipf
	words []string
}

func newSynthetic() *synthetic {
	s := &synthetic{r: rand.New(rand.NewPCG(1, 2))}
	syllables := strings.Fields("ba cor del fin gar hol jan kel lim mor net ors pal qui ros sta tur vel wex zan")
	seen := map[string]bool{}
	for len(s.words) < 20_000 {
		w := ""
		for range 2 + s.r.IntN(3) {
			w += syllables[s.r.IntN(len(syllables))]
		}
		if !seen[w] {
			seen[w] = true
			s.words = append(s.words, w)
		}
	}
	s.zipf = rand.NewZipf(s.r, 1.1, 10, uint64(len(s.words)-1))
	return s
}

func (s *synthetic) text(words int) string {
	ws := make([]string, words)
	for i := range ws {
		ws[i] = s.words[s.zipf.Uint64()]
	}
	return strings.Join(ws, " ")
}

func (s *synthetic) card() *a2a.AgentCard {
	return &a2a.AgentCard{Name: s.text(3), Description: s.text(15), Skills: []a2a.AgentSkill{
		{ID: "a", Name: s.text(2), Description: s.text(10), Tags: []string{s.text(1)}, Examples: []string{s.text(8), s.text(8)}},
	}}
}

func (s *synthetic) index(n int) *router.Index {
	x := router.New(nil)
	for i := range n {
		x.Put(fmt.Sprint("agent_", i), s.card())
	}
	return x
}

func BenchmarkSearch10k(b *testing.B) {
	s := newSynthetic()
	before := heap()
	x := s.index(10_000)
	after := heap()
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = s.text(12)
	}
	i := 0
	for b.Loop() {
		x.Search(texts[i%len(texts)], nil)
		i++
	}
	b.ReportMetric(float64(after-before)/1e6, "MB")
	runtime.KeepAlive(x)
}

func BenchmarkSearch10kLearned(b *testing.B) {
	s := newSynthetic()
	x := s.index(10_000)
	before := heap()
	for i := range 1000 {
		var es []router.Evidence
		for j := range 64 {
			es = append(es, router.Evidence{ID: fmt.Sprint(j), Text: s.text(12), From: fmt.Sprint(j), Time: time.Unix(int64(j), 0)})
		}
		x.Learn(fmt.Sprint("agent_", i), es)
	}
	after := heap()
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = s.text(12)
	}
	i := 0
	for b.Loop() {
		x.Search(texts[i%len(texts)], nil)
		i++
	}
	b.ReportMetric(float64(after-before)/1e3/64_000, "KB/item")
}

func BenchmarkPut10k(b *testing.B) {
	s := newSynthetic()
	x := s.index(10_000)
	cards := make([]*a2a.AgentCard, 1000)
	for i := range cards {
		cards[i] = s.card()
	}
	i := 0
	for b.Loop() {
		x.Put(fmt.Sprint("agent_", i%10_000), cards[i%len(cards)])
		i++
	}
}

func BenchmarkNamed10k(b *testing.B) {
	s := newSynthetic()
	x := s.index(10_000)
	text := s.text(20) + " @agent_17 " + s.text(20)
	for b.Loop() {
		x.Named(text)
	}
}

// heap returns the bytes in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
