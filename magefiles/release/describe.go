package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// describe writes what the programs are made of, as CycloneDX 1.5, and how, as a statement of SLSA 1.0.
func (r *release) describe() error {
	programs, err := filepath.Glob(filepath.Join(r.dir, "*-linux-*"))
	if err != nil {
		return err
	}
	type component struct {
		Type    string `json:"type"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	type subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	components, seen := []component{}, map[string]bool{}
	goVersion := ""
	for _, file := range programs {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		goVersion = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if purl := "pkg:golang/" + m.Path + "@" + m.Version; !seen[purl] {
				seen[purl] = true
				components = append(components, component{"library", m.Path, m.Version, purl})
			}
		}
	}
	components = append(components, component{"library", "std", strings.TrimPrefix(goVersion, "go"), "pkg:golang/std@" + strings.TrimPrefix(goVersion, "go")})
	components = append(components, component{"library", "crawlerfilter", r.pep440(), "pkg:pypi/crawlerfilter@" + r.pep440()}) // it needs nothing else
	if err := r.writeJSON("sbom.cdx.json", map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components,
		"metadata": map[string]any{"timestamp": r.time, "component": component{"application", "urifilter", r.version, "pkg:golang/github.com/cr-clawer/urifilter@" + r.version}},
	}); err != nil {
		return err
	}
	files, err := r.sums()
	if err != nil {
		return err
	}
	var subjects []subject
	for _, f := range files {
		subjects = append(subjects, subject{f.name, map[string]string{"sha256": f.sum}})
	}
	return r.writeJSON("provenance.json", map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "https://github.com/cr-clawer/urifilter/magefiles/release",
				"externalParameters":   map[string]any{"version": r.version, "platforms": r.platforms},
				"resolvedDependencies": []any{map[string]any{"uri": "git+https://github.com/cr-clawer/urifilter", "digest": map[string]string{"gitCommit": r.commit}}},
				"internalParameters":   map[string]any{"go": goVersion, "python": r.python},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": "go tool mage release"}},
		},
	})
}

func (r *release) writeJSON(name string, value any) error {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	return r.write(name, append(text, '\n'))
}
