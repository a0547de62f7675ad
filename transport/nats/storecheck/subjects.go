package storecheck

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server/gsl"
)

// subjects are those that a stream of Cortex takes; nil: they are not known.
type subjects struct {
	filters *gsl.SimpleSublist
}

// subjectsOf returns the subjects in the configuration of a stream.
func subjectsOf(conf []byte) *subjects {
	var c struct {
		Subjects []string `json:"subjects"`
	}
	if json.Unmarshal(conf, &c) != nil || len(c.Subjects) == 0 {
		return nil
	}
	all := gsl.NewSimpleSublist()
	for _, filter := range c.Subjects {
		if all.Insert(filter, struct{}{}) != nil {
			return nil
		}
	}
	return &subjects{all}
}

// fit reports whether the subject of a record can be what was written. A header proves it: with another length of the subject it would not begin where it
// does. In a record without one the subject may have lost its end, or have some of the data: it must be one of the stream's, in the characters of Cortex.
func (s *subjects) fit(r *Record) bool {
	if r.Gone || len(r.Header) > 0 {
		return true
	}
	printable := !strings.ContainsFunc(r.Subject, func(c rune) bool { return c <= ' ' || c > '~' })
	return printable && !slices.Contains(strings.Split(r.Subject, "."), "") && (s == nil || s.filters.HasInterest(r.Subject))
}
