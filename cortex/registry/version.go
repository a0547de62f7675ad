package registry

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// versions caches parsed versions by their text, of which thousands of agents have few. nil stands for text that is not a semantic version.
type versions map[string]*semver.Version

func (v versions) of(text string) *semver.Version {
	known, ok := v[text]
	if !ok {
		known, _ = semver.NewVersion(text) // nil on an error
		v[text] = known
	}
	return known
}

// compareVersions compares two versions. nil, which stands for other text, is lower than every version.
func compareVersions(a, b *semver.Version) int {
	switch {
	case a != nil && b != nil:
		return a.Compare(b)
	case a != nil:
		return 1
	case b != nil:
		return -1
	}
	return 0
}

// versionRange is a constraint on versions. It is not safe for concurrent use.
type versionRange struct {
	constraints *semver.Constraints
	known       map[string]bool // cached results by text
}

func newVersionRange(constraint string) (*versionRange, error) {
	c, err := semver.NewConstraint(constraint)
	if err != nil {
		return nil, fmt.Errorf("version constraint %.100q cannot be read; write one such as \">=1.2.0 <2.0.0\"", constraint)
	}
	return &versionRange{c, map[string]bool{}}, nil
}

// has reports whether text is a version in the range.
func (r *versionRange) has(text string) bool {
	in, ok := r.known[text]
	if !ok {
		v, err := semver.NewVersion(text)
		in = err == nil && r.constraints.Check(v)
		r.known[text] = in
	}
	return in
}
