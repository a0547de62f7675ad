package persona

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cortex-orchestrator/cortex/internal/document"
	"github.com/cortex-orchestrator/cortex/internal/shorten"
)

// skillFile is the file that makes a folder a skill.
const skillFile = "SKILL.md"

const (
	maxSkills     = 256
	maxSkillFiles = 100 // that are listed
)

// Skill is a folder with instructions for one kind of work, in the format of agentskills.io: the name and the description are always in the prompt, the
// text is loaded when it is needed, and other files when the text refers to them. Nothing in it is run.
type Skill struct {
	Name, Description, Body string

	root  *os.Root
	files []string
}

// skillName matches the names that the format allows.
var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// ReadSkills reads the skill in a folder, or those in its subfolders. Close them when they are not needed any more.
func ReadSkills(ctx context.Context, dir string) ([]*Skill, error) {
	if _, err := os.Stat(filepath.Join(dir, skillFile)); err == nil {
		s, err := readSkill(ctx, dir)
		if err != nil {
			return nil, err
		}
		return []*Skill{s}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(filepath.Join(sub, skillFile)); err == nil {
			dirs = append(dirs, sub)
		}
	}
	switch {
	case len(dirs) == 0:
		return nil, fmt.Errorf("%s has no skill: a folder with a %s", dir, skillFile)
	case len(dirs) > maxSkills:
		return nil, fmt.Errorf("%s has %d skills: at most %d are allowed", dir, len(dirs), maxSkills)
	}
	var all []*Skill
	for _, sub := range dirs {
		s, err := readSkill(ctx, sub)
		if err != nil {
			for _, s := range all {
				_ = s.Close()
			}
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func readSkill(ctx context.Context, dir string) (_ *Skill, err error) {
	path := filepath.Join(dir, skillFile)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	b, err := document.Read(ctx, path, maxFile)
	if err != nil {
		return nil, err
	}
	front, body, err := split(b)
	if err != nil {
		return nil, err
	}
	all, _, err := fields(front)
	if err != nil {
		return nil, err
	}
	s := &Skill{Body: body}
	for key, to := range map[string]*string{"name": &s.Name, "description": &s.Description} {
		if json.Unmarshal(all[key], to) != nil || strings.TrimSpace(*to) == "" {
			return nil, fmt.Errorf("its front matter has no %s", key)
		}
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	switch folder := filepath.Base(absolute); {
	case !skillName.MatchString(s.Name) || len(s.Name) > 64:
		return nil, fmt.Errorf("name %q: want at most 64 lower-case letters, digits and hyphens", shorten.Line(s.Name, 80))
	case s.Name != folder:
		return nil, fmt.Errorf("name %s: it has to be the name of its folder, %s", s.Name, folder)
	}
	s.Description = shorten.To(strings.Join(strings.Fields(s.Description), " "), 1024)
	if s.root, err = os.OpenRoot(dir); err != nil {
		return nil, err
	}
	err = fs.WalkDir(s.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && path != skillFile {
			s.files = append(s.files, path)
		}
		if len(s.files) == maxSkillFiles {
			return fs.SkipAll
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.root.Close())
	}
	return s, nil
}

// Close closes the folder.
func (s *Skill) Close() error { return s.root.Close() }

// text returns what the model gets to read.
func (s *Skill) text() string {
	if len(s.files) == 0 {
		return s.Body
	}
	return s.Body + "\n\nIts files, to be read with " + toolFile + ":\n" + strings.Join(s.files, "\n")
}

// skillTools returns the tools that load skills.
func (a *Agent) skillTools() []*tool {
	if len(a.o.Skills) == 0 {
		return nil
	}
	find := func(name string) (*Skill, error) {
		i := slices.IndexFunc(a.o.Skills, func(s *Skill) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no skill %q", shorten.Line(name, 64))
		}
		return a.o.Skills[i], nil
	}
	return []*tool{
		newTool(toolSkill, "Read the instructions of a skill before you do work of its kind.", readOnly,
			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`,
			func(_ context.Context, _ *work, in *input) (string, error) {
				s, err := find(in.Name)
				if err != nil {
					return "", err
				}
				return s.text(), nil
			}),
		newTool(toolFile, "Read a file of a skill.", readOnly,
			`{"type":"object","properties":{"name":{"type":"string","description":"of the skill"},"path":{"type":"string"}},"required":["name","path"],"additionalProperties":false}`,
			func(ctx context.Context, _ *work, in *input) (string, error) {
				s, err := find(in.Name)
				if err != nil {
					return "", err
				}
				return readIn(ctx, s.root, in.Path)
			}),
	}
}
