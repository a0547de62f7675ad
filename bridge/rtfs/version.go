package rtfs

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// constraint is a version_constraint.
type constraint struct {
	exact string // what a version that is not semantic has to equal
	of    *semver.Constraints
}

// newConstraint reads a constraint such as ">=1.2.0 <2.0.0"; "" is none, for which it returns nil.
func newConstraint(text string) (*constraint, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil //nolint:nilnil // no constraint
	}
	c := &constraint{exact: strings.TrimSpace(strings.TrimPrefix(text, "="))}
	var err error
	if c.of, err = semver.NewConstraint(text); err != nil && strings.ContainsAny(c.exact, "<>=!^~|*, ") {
		return nil, fmt.Errorf("version_constraint %.100q cannot be read: write one such as \">=1.2.0 <2.0.0\"", text)
	}
	return c, nil
}

// has reports whether a version meets the constraint, which may be nil.
func (c *constraint) has(version string) bool {
	if c == nil || version == c.exact {
		return true
	}
	v, err := semver.NewVersion(version)
	return err == nil && c.of != nil && c.of.Check(v)
}
