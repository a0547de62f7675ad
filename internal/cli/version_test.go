package cli

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// TestVersion reads the build information of binaries that were built in different ways.
func TestVersion(t *testing.T) {
	of := func(version string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{Main: debug.Module{Path: modulePath, Version: version}}
		for _, s := range settings {
			k, v, _ := strings.Cut(s, "=")
			info.Settings = append(info.Settings, debug.BuildSetting{Key: k, Value: v})
		}
		return info
	}
	const revision = "vcs.revision=0123456789abcdef0123456789abcdef01234567"
	for name, test := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"go install of a release": {of("v1.2.3"), "cortex 1.2.3 ("},
		"go install of a branch":  {of("v0.1.1-0.20261123051234-0123456789ab"), "cortex " + current + "-dev (commit 0123456789ab of 2026-11-23, go"},
		"no tag yet":              {of("v0.0.0-20261123051234-0123456789ab"), "cortex " + current + "-dev (commit 0123456789ab of 2026-11-23, go"},
		"a repository at its tag": {of("v1.2.3", revision, "vcs.time=2026-11-20T10:00:00Z", "vcs.modified=false"), "cortex 1.2.3 (commit 0123456789ab of 2026-11-20, go"},
		"a candidate":             {of("v1.3.0-rc.1"), "cortex 1.3.0-rc.1 (go"},
		"changed":                 {of("v1.2.3+dirty", revision, "vcs.time=2026-11-20T10:00:00Z", "vcs.modified=true"), "cortex 1.2.3 (commit 0123456789ab of 2026-11-20, modified, go"},
		"no repository":           {of("(devel)"), "cortex " + current + " (go"},
		"nothing is noted":        {new(debug.BuildInfo), "cortex " + current + " (go"},
		"as a library": {&debug.BuildInfo{
			Main:     debug.Module{Path: "example.com/parrot", Version: "v9.9.9"},
			Deps:     []*debug.Module{{Path: modulePath, Version: "v1.2.3"}},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "theirs"}},
		}, "cortex 1.2.3 (go"},
		"as a library that is replaced": {&debug.BuildInfo{
			Main: debug.Module{Path: "example.com/parrot"}, Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0"}},
		}, "cortex " + current + " (go"},
	} {
		if got := noted(test.info).String(); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestVersionIsInTheChangelog checks that the first numbered section of the changelog is for the upcoming version.
func TestVersionIsInTheChangelog(t *testing.T) {
	b, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$`).FindSubmatch(b); m == nil || string(m[1]) != current {
		t.Errorf("the first version of CHANGELOG.md is %q, want %s", m, current)
	}
}
