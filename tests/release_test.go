package tests

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRelease checks what GoReleaser does not check before it builds: that the files in .goreleaser.yaml exist.
func TestRelease(t *testing.T) {
	text := read(t, ".goreleaser.yaml")
	var config object
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	source := read(t, "internal/cli/version.go")
	variables := regexp.MustCompile(`-X github\.com/cortex-orchestrator/cortex/internal/cli\.(\w+)=`).FindAllStringSubmatch(text, -1)
	if len(variables) != 3 {
		t.Errorf("%d variables are set, want version, commit and date", len(variables))
	}
	for _, v := range variables {
		if !regexp.MustCompile(`(?m)^var .*\b` + v[1] + `\b.* string$`).MatchString(source) {
			t.Errorf("internal/cli/version.go has no variable %s: what the linker is told is lost", v[1])
		}
	}
	files := texts(t, at(t, config, "archives", 0, "files"))
	for _, c := range at(t, config, "nfpms", 0, "contents").([]any) {
		files = append(files, c.(object)["src"].(string))
	}
	files = append(files, at(t, config, "dockers_v2", 0, "dockerfile").(string))
	made := map[string]bool{"release/man/*": true, "release/completions/*": true} // by .ci/packaging
	for _, shell := range []string{"bash", "zsh", "fish"} {
		made["release/completions/cortex."+shell] = true
	}
	for _, file := range files {
		if found, err := filepath.Glob(file); !made[file] && (err != nil || len(found) == 0) {
			t.Errorf(".goreleaser.yaml names %s: there is no such file", file)
		}
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		if !strings.Contains(strings.Join(texts(t, at(t, config, "builds", 0, "goos")), " "), system) {
			t.Errorf("nothing is built for %s", system)
		}
	}
	// Both images run the same: one is built from source, the other from a release.
	const from = "ENV CORTEX_DATA"
	_, ofSource, _ := strings.Cut(read(t, "deploy/Dockerfile"), from)
	if _, ofRelease, _ := strings.Cut(read(t, "deploy/Dockerfile.release"), from); ofRelease == "" || ofRelease != ofSource {
		t.Errorf("deploy/Dockerfile.release ends with\n%s, deploy/Dockerfile with\n%s", ofRelease, ofSource)
	}
	versions := map[string]bool{}
	for _, v := range regexp.MustCompile(`(?:GoReleaser |goreleaser/v2@)(v\S+)`).FindAllStringSubmatch(text, -1) {
		versions[strings.TrimSuffix(v[1], ",")] = true
	}
	if len(versions) != 1 {
		t.Errorf("GoReleaser is named in versions %v, want one", versions)
	}
}
