package eval

import (
	"context"
	"fmt"
	"time"

	"github.com/cortex-orchestrator/cortex/cortex/router"
)

// lesson is the evidence from a file of queries, by agent, and the texts that it came from.
type lesson struct {
	evidence map[string][]router.Evidence
	texts    map[string]bool
}

// readLesson converts a file of queries to evidence, as if the agents that fit had answered each of them at now. Each query is from a different user,
// because the index trusts evidence from many users.
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
