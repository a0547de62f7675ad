package tests

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"sigs.k8s.io/yaml"

	"github.com/cortex-orchestrator/cortex/app"
)

// object is a node of a YAML document.
type object = map[string]any

// documents decodes all documents in a YAML file.
func documents(t *testing.T, file string) []object {
	t.Helper()
	var all []object
	for part := range strings.SplitSeq(read(t, file), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(part+"\n"), &o); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
	return all
}

// at returns the value in o at a path of keys, and indexes of lists.
func at(t *testing.T, o any, path ...any) any {
	t.Helper()
	for i, key := range path {
		switch k := key.(type) {
		case string:
			m, ok := o.(object)
			if !ok || m[k] == nil {
				t.Fatalf("nothing at %v", path[:i+1])
			}
			o = m[k]
		case int:
			l, ok := o.([]any)
			if !ok || k >= len(l) {
				t.Fatalf("nothing at %v", path[:i+1])
			}
			o = l[k]
		}
	}
	return o
}

func texts(t *testing.T, list any) []string {
	t.Helper()
	var all []string
	for _, v := range list.([]any) {
		s, ok := v.(string)
		if !ok {
			t.Fatalf("%v is no text", v)
		}
		all = append(all, s)
	}
	return all
}

// acceptsCommand checks that the program knows the command and its flags: --help takes effect after the flags are parsed.
func acceptsCommand(t *testing.T, where string, args []string) {
	t.Helper()
	for i, a := range args { // the rest is another program's
		if a == "--" {
			args = args[:i]
			break
		}
	}
	var out, errs bytes.Buffer
	args = append(slices.Clone(args), "--help")
	if code := app.Run(t.Context(), app.Options{}, args, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "cortex "+args[0]) {
		t.Errorf("%s: cortex %s: exit %d\n%s", where, strings.Join(args, " "), code, errs.String())
	}
}

// TestDeployCommands checks that every cortex command in deploy exists in this program.
func TestDeployCommands(t *testing.T) {
	found := map[string][][]string{}
	add := func(file string, args []string) { found[file] = append(found[file], args) }
	var files []string
	for _, pattern := range []string{"deploy/*", "deploy/*/*"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	commands := regexp.MustCompile(`(?m)(?:^ExecStart=/usr/local/bin/|^#   ExecStart=/usr/local/bin/|^\$? *)cortex ((?:serve|agent|auth|replicas|ask|chat|agents|dead|sessions|bench|version)\b[^#\n]*)`)
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		for _, m := range commands.FindAllStringSubmatch(read(t, file), -1) {
			add(file, strings.Fields(strings.NewReplacer("%i", "echo", "\"", "").Replace(m[1])))
		}
	}
	compose := documents(t, "deploy/compose.yaml")[0]
	for name := range at(t, compose, "services").(object) {
		service := at(t, compose, "services", name).(object)
		if service["image"] != "cortex" {
			continue
		}
		add("deploy/compose.yaml", texts(t, service["command"]))
		if check, ok := service["healthcheck"]; ok {
			add("deploy/compose.yaml", texts(t, at(t, check, "test"))[2:])
		}
	}
	for _, file := range []string{"deploy/kubernetes/cortex.yaml", "deploy/kubernetes/agent.yaml"} {
		for _, o := range documents(t, file) {
			if o["kind"] == "Deployment" {
				add(file, texts(t, at(t, o, "spec", "template", "spec", "containers", 0, "args")))
			}
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindAllStringSubmatch(read(t, "deploy/Dockerfile"), -1) {
		var args []any
		if err := yaml.Unmarshal([]byte(line[1]), &args); err != nil {
			t.Fatal(err)
		}
		add("deploy/Dockerfile", texts(t, args))
	}
	for _, file := range []string{
		"deploy/Dockerfile", "deploy/README.md", "deploy/compose.yaml", "deploy/kubernetes/cortex.yaml", "deploy/kubernetes/agent.yaml",
		"deploy/systemd/cortex.service", "deploy/systemd/cortex-agent@.service",
	} {
		if len(found[file]) == 0 {
			t.Errorf("%s: no cortex command is in it", file)
		}
		for _, args := range found[file] {
			acceptsCommand(t, file, args)
		}
	}
	if n := len(found["deploy/compose.yaml"]); n != 5 {
		t.Errorf("compose.yaml has %d commands, want those of two Cortexes with their health checks and an agent", n)
	}
}

// TestDeploySettings checks that every variable that is set in deploy is a setting of this program, with a flag.
func TestDeploySettings(t *testing.T) {
	all := read(t, "deploy/Dockerfile") + read(t, "deploy/README.md")
	for _, pattern := range []string{"deploy/*.yaml", "deploy/*/*.yaml", "deploy/systemd/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", pattern, err)
		}
		for _, f := range files {
			all += read(t, f)
		}
	}
	var help bytes.Buffer
	if code := app.Run(t.Context(), app.Options{}, []string{"serve", "--help"}, strings.NewReader(""), &help, &help); code != 0 {
		t.Fatalf("serve --help: exit %d", code)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bCORTEX_([A-Z_]+)\b`).FindAllStringSubmatch(all, -1) {
		names[m[1]] = true
	}
	if len(names) < 3 {
		t.Errorf("settings are %v, want more", slices.Sorted(maps.Keys(names)))
	}
	for name := range names {
		flag := "--" + strings.ToLower(strings.ReplaceAll(name, "_", "-"))
		if name == "NATS_URL" {
			flag = "--nats"
		}
		if !strings.Contains(help.String(), flag+" ") {
			t.Errorf("CORTEX_%s: serve has no flag %s", name, flag)
		}
	}
}

// natsEnvironment sets the variables that deploy/nats/nats.conf uses.
func natsEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
}

// TestDeployNATS parses nats.conf as nats-server does, with the environment of each setup.
func TestDeployNATS(t *testing.T) {
	environments := map[string]map[string]string{"systemd": {"NATS_STORE": "/var/lib/nats"}}
	for line := range strings.Lines(read(t, "deploy/systemd/nats.env")) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			environments["systemd"][k] = strings.Trim(v, `"`)
		}
	}
	compose := documents(t, "deploy/compose.yaml")[0]
	for name := range at(t, compose, "services").(object) {
		service := at(t, compose, "services", name).(object)
		if !strings.HasPrefix(name, "nats") {
			continue
		}
		environments[name] = map[string]string{}
		for k, v := range at(t, service, "environment").(object) {
			environments[name][k] = v.(string)
		}
	}
	for _, o := range documents(t, "deploy/kubernetes/nats.yaml") {
		switch o["kind"] {
		case "ConfigMap":
			if at(t, o, "data", "nats.conf") != read(t, "deploy/nats/nats.conf") {
				t.Error("nats.conf in kubernetes/nats.yaml is not deploy/nats/nats.conf")
			}
		case "StatefulSet":
			environments["kubernetes"] = map[string]string{}
			for _, v := range at(t, o, "spec", "template", "spec", "containers", 0, "env").([]any) {
				v := v.(object)
				value, ok := v["value"].(string)
				if !ok {
					value = "nats-0" // the name of the pod
				}
				environments["kubernetes"][v["name"].(string)] = value
			}
			if at(t, o, "spec", "replicas") != 3.0 {
				t.Errorf("replicas are %v, want 3", at(t, o, "spec", "replicas"))
			}
		}
	}
	if len(environments) != 5 {
		t.Fatalf("environments are %v, want those of systemd, Kubernetes and three services", slices.Sorted(maps.Keys(environments)))
	}
	for name, env := range environments {
		t.Run(name, func(t *testing.T) {
			natsEnvironment(t, env)
			o, err := server.ProcessConfigFile("deploy/nats/nats.conf")
			if err != nil {
				t.Fatal(err)
			}
			if !o.JetStream || o.MaxPayload != 8<<20 || o.SyncInterval.String() != "1s" || o.SyncAlways || o.StoreDir != env["NATS_STORE"] {
				t.Errorf("JetStream %v, max_payload %d, sync %v (always %v), store %q", o.JetStream, o.MaxPayload, o.SyncInterval, o.SyncAlways, o.StoreDir)
			}
			if o.ServerName != env["NATS_NAME"] || o.Port != 4222 || o.Cluster.Port != 6222 || o.HTTPPort != 8222 || o.Cluster.Name != "cortex" || len(o.Routes) != 3 {
				t.Errorf("server %q, ports %d, %d, %d, cluster %q, routes %v", o.ServerName, o.Port, o.Cluster.Port, o.HTTPPort, o.Cluster.Name, o.Routes)
			}
		})
	}
	t.Run("what is commented out", func(t *testing.T) {
		natsEnvironment(t, environments["systemd"])
		conf := read(t, "deploy/nats/nats.conf")
		for _, s := range []string{"# include resolver.conf\n", "# tls {\n#   cert_file: /etc/nats/tls/tls.crt\n"} {
			if !strings.Contains(conf, s) {
				t.Errorf("nats.conf has no %q", s)
			}
		}
	})
	t.Run("a variable that is missing", func(t *testing.T) {
		if _, err := server.ProcessConfigFile("deploy/nats/nats.conf"); err == nil || !strings.Contains(err.Error(), "NATS_") {
			t.Errorf("ProcessConfigFile = %v, want an error that names the variable", err)
		}
	})
}

// TestDeployVersions checks that the deployed servers have the version with which everything is tested, and that the image is built with the module's
// version of Go.
func TestDeployVersions(t *testing.T) {
	mod := read(t, "go.mod")
	want := regexp.MustCompile(`nats-io/nats-server/v2 v(\S+)`).FindStringSubmatch(mod)[1]
	for _, file := range []string{"deploy/compose.yaml", "deploy/kubernetes/nats.yaml", "deploy/README.md"} {
		versions := regexp.MustCompile(`(?:nats:|nats-server v?)(\d+\.\d+\.\d+)`).FindAllStringSubmatch(read(t, file), -1)
		if len(versions) == 0 {
			t.Errorf("%s names no version of nats-server", file)
		}
		for _, v := range versions {
			if v[1] != want {
				t.Errorf("%s: nats-server %s, go.mod has %s", file, v[1], want)
			}
		}
	}
	golang := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mod)[1]
	if !strings.Contains(read(t, "deploy/Dockerfile"), "FROM golang:"+golang+" ") {
		t.Errorf("the Dockerfile does not build with Go %s", golang)
	}
}

// TestDeployManifests checks mistakes that would be noticed late: selectors without matches, and unnecessary permissions.
func TestDeployManifests(t *testing.T) {
	kinds := map[string]int{}
	for _, name := range []string{"nats", "cortex", "agent"} {
		for _, o := range documents(t, "deploy/kubernetes/"+name+".yaml") {
			kind := o["kind"].(string)
			kinds[kind]++
			at(t, o, "apiVersion")
			at(t, o, "metadata", "name")
			if kind != "Deployment" && kind != "StatefulSet" {
				continue
			}
			pod := at(t, o, "spec", "template", "spec")
			container := at(t, pod, "containers", 0)
			if got, want := at(t, o, "spec", "template", "metadata", "labels", "app"), at(t, o, "spec", "selector", "matchLabels", "app"); got != want {
				t.Errorf("%s: pods are %v, the selector wants %v", name, got, want)
			}
			if at(t, pod, "securityContext", "runAsNonRoot") != true || at(t, container, "securityContext", "allowPrivilegeEscalation") != false {
				t.Errorf("%s: it may become root", name)
			}
			at(t, container, "resources", "limits", "memory")
			volumes := map[string]bool{}
			for _, key := range []any{at(t, pod, "volumes"), o["spec"].(object)["volumeClaimTemplates"]} {
				list, _ := key.([]any)
				for _, v := range list {
					v := v.(object)
					if m, ok := v["metadata"].(object); ok {
						v = m
					}
					volumes[v["name"].(string)] = true
				}
			}
			for _, m := range at(t, container, "volumeMounts").([]any) {
				if n := m.(object)["name"].(string); !volumes[n] {
					t.Errorf("%s: there is no volume %s", name, n)
				}
			}
			if name == "cortex" {
				for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
					if at(t, container, probe, "httpGet", "path") != path {
						t.Errorf("%s asks %v", probe, at(t, container, probe, "httpGet", "path"))
					}
				}
			}
		}
	}
	for kind, n := range map[string]int{"ConfigMap": 2, "Service": 1, "PodDisruptionBudget": 2, "StatefulSet": 1, "Deployment": 2} {
		if kinds[kind] != n {
			t.Errorf("%d of kind %s, want %d", kinds[kind], kind, n)
		}
	}
}
