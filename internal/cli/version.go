package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cortex-orchestrator/cortex/internal/cli/typed"
)

// version, commit and date are set with -ldflags '-X …/internal/cli.version=1.2.3' in builds outside a repository. Otherwise they come from the build
// information in the binary.
var version, commit, date string

// current is the upcoming version of this source, for builds without a version.
const current = "0.1.0"

// build describes how this binary was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (e *env) newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and the commit that it was built of",
		Example: "  cortex version --json",
		Args:    typed.Exact(),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(b)
			}
			_, err := io.WriteString(e.stdout, versionLine())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// versionLine is the output of the version command.
func versionLine() string { return thisBuild().String() + "\n" }

func (b build) String() string {
	about := []string{b.Go, b.Platform}
	if b.Commit != "" {
		of := "commit " + b.Commit[:min(12, len(b.Commit))]
		if day, _, _ := strings.Cut(b.Date, "T"); day != "" {
			of += " of " + day
		}
		if b.Modified {
			of += ", modified"
		}
		about = append([]string{of}, about...)
	}
	return fmt.Sprintf("cortex %s (%s)", b.Version, strings.Join(about, ", "))
}

func buildVersion() string { return thisBuild().Version }

func thisBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return noted(info)
}

// release matches the version of a tagged commit.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// isPublished reports whether this is a build of a released version, which `go mod tidy` finds.
func isPublished() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && info.Main.Path == modulePath && release.MatchString(info.Main.Version)
}

// pseudo matches the end of Go's pseudo-version of an untagged commit: its time and hash.
var pseudo = regexp.MustCompile(`[-.](\d{14})-([0-9a-f]{12})(\+.*)?$`)

// noted returns the build information in the binary, completed by the -ldflags.
func noted(info *debug.BuildInfo) build {
	b := build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if module := info.Main; module.Path == modulePath {
		b.Version = strings.TrimSuffix(strings.TrimPrefix(module.Version, "v"), "+dirty")
		if m := pseudo.FindStringSubmatch(module.Version); m != nil {
			b.Version, b.Commit = current+"-dev", m[2]
			if t, err := time.Parse("20060102150405", m[1]); err == nil {
				b.Date = t.Format(time.RFC3339)
			}
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Date = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	} else { // Cortex is a library of another program: the commit in the build information is that program's
		for _, dep := range info.Deps {
			if dep.Path == modulePath && !pseudo.MatchString(dep.Version) {
				b.Version = strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	if b.Version == "(devel)" || b.Version == "0.0.0" {
		b.Version = ""
	}
	b.Version, b.Commit, b.Date = cmp.Or(version, b.Version, current), cmp.Or(commit, b.Commit), cmp.Or(date, b.Date)
	return b
}

// modulePath is Cortex's Go module.
const modulePath = "github.com/cortex-orchestrator/cortex"
