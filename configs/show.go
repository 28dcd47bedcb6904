package configs

import "go.yaml.in/yaml/v4"

// YAML returns the settings as a file that Load reads back, except that secrets
// are replaced by xxxxx.
func (c Config) YAML() ([]byte, error) {
	if c.MongoDB.URI != "" {
		c.MongoDB.URI = maskMongoURI(c.MongoDB.URI)
	}
	return yaml.Dump(c, yaml.WithV3Defaults(), yaml.WithIndent(2))
}
