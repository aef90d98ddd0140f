// Checks WorkflowTemplates as Argo's linter does, and waits for a resource as Argo's executor does, with Argo's own packages.
// Arguments: the file with the templates and, to wait, the API server's address, a template's name and the path of the resource.
// Writes the faults of the templates, and the error and the output parameters of the wait, as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v4/pkg/apis/workflow/v1alpha1"
	"github.com/argoproj/argo-workflows/v4/util/logging"
	"github.com/argoproj/argo-workflows/v4/workflow/executor"
	"github.com/argoproj/argo-workflows/v4/workflow/validate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

type answer struct {
	Templates []string          `json:"templates"`
	Faults    []string          `json:"faults"`
	Error     string            `json:"error"`
	Outputs   map[string]string `json:"outputs"`
}

func main() {
	ctx := logging.WithLogger(context.Background(), logging.NewSlogLoggerCustom(logging.Error, logging.Text, os.Stderr))
	said := answer{Templates: []string{}, Faults: []string{}, Outputs: map[string]string{}}
	templates := map[string]*wfv1.WorkflowTemplate{}
	content, err := os.ReadFile(os.Args[1])
	check(err)
	for _, document := range strings.Split(string(content), "\n---\n") {
		template := &wfv1.WorkflowTemplate{}
		if err := yaml.UnmarshalStrict([]byte(document), template); err != nil {
			said.Faults = append(said.Faults, err.Error())
			continue
		}
		if err := validate.ValidateWorkflowTemplate(ctx, nil, nil, template, nil, validate.ValidateOpts{Lint: true}); err != nil {
			said.Faults = append(said.Faults, err.Error())
		}
		said.Templates = append(said.Templates, template.Name)
		templates[template.Name] = template
	}
	if len(os.Args) > 2 {
		wait(ctx, &said, os.Args[2], templates[os.Args[3]].Spec.Templates[0], os.Args[4])
	}
	check(json.NewEncoder(os.Stdout).Encode(said))
}

// wait waits for the resource at the path until a condition of the template is met, and computes the output parameters.
func wait(ctx context.Context, said *answer, server string, template wfv1.Template, path string) {
	config := &rest.Config{Host: server, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Group: "dataprep.io", Version: "v1alpha1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}}
	client, err := rest.RESTClientFor(config)
	check(err)
	resources := executor.WorkflowExecutor{Template: template, RESTClient: client}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := resources.WaitResource(limited, "", "", path); err != nil {
		said.Error = err.Error()
		return
	}
	content, err := client.Get().RequestURI(path).DoRaw(ctx)
	check(err)
	var object any
	check(json.Unmarshal(content, &object))
	for _, parameter := range template.Outputs.Parameters {
		// kubectl, which Argo calls, evaluates the paths with this package.
		parsed := jsonpath.New(parameter.Name)
		check(parsed.Parse(parameter.ValueFrom.JSONPath))
		value := &bytes.Buffer{}
		check(parsed.Execute(value, object))
		said.Outputs[parameter.Name] = value.String()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
