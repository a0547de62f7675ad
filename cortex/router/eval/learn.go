package eval

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// lesson is what a file of queries teaches: the evidence of each agent, and the texts it came from.
type lesson struct {
	evidence map[string][]router.Evidence
	texts    map[string]bool
}

// readLesson turns a file of queries into evidence, as if the agents that fit had answered each of them at now. Each query is
// asked by somebody else, as the evidence of many is what an index trusts.
func readLesson(ctx context.Context, file string, d *directory, now time.Time) (*lesson, error) {
	s := &lesson{map[string][]router.Evidence{}, map[string]bool{}}
	err := readLines(ctx, file, func(at place, l *queryLine) error {
		if _, err := l.resolve(at, d, false); err != nil {
			return err
		}
		s.texts[l.Query] = true
		for _, id := range l.Agents {
			agents, skill, err := d.resolve(at, id)
			if err != nil {
				return err
			}
			for _, agent := range agents {
				s.evidence[agent] = append(s.evidence[agent], router.Evidence{
					ID:    fmt.Sprintf("line-%07d", at.line),
					Skill: skill,
					Text:  l.Query,
					From:  fmt.Sprintf("asker-%d", at.line),
					Time:  now,
				})
			}
		}
		return nil
	})
	return s, err
}
