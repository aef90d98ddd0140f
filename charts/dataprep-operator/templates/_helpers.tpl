{{- define "dataprep-operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "dataprep-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "dataprep-operator.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ required "serviceAccount.name must be set when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "dataprep-operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- /* The selector's component label is left out, because not all objects of a release belong to the operator's pods. */ -}}
{{- define "dataprep-operator.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Returns an image reference with the digest, the tag or the chart's appVersion, whichever is set first. The argument is a list of the image and the root. */ -}}
{{- define "dataprep-operator.image" -}}
{{- $image := index . 0 -}}
{{- $root := index . 1 -}}
{{- with $root.Values.image.registry }}{{ . }}/{{ end -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- /* The images that the release's pods use, and that jobs use if they set no image, one per line. */ -}}
{{- define "dataprep-operator.images" -}}
{{- $images := list (include "dataprep-operator.image" (list .Values.image.operator .)) (include "dataprep-operator.image" (list .Values.image.converter .)) -}}
{{- if .Values.spark.enabled }}{{ $images = append $images (include "dataprep-operator.image" (list .Values.image.spark .)) }}{{ end -}}
{{- range concat .Values.extraInitContainers .Values.extraContainers }}{{ $images = append $images .image }}{{ end -}}
{{- concat $images (values .Values.workers.frameworks) | compact | uniq | sortAlpha | join "\n" -}}
{{- end -}}

{{- define "dataprep-operator.statusUrl" -}}
{{ default (printf "http://%s.%s.svc:8080" (include "dataprep-operator.fullname" .) .Release.Namespace) .Values.status.url }}
{{- end -}}

{{- define "dataprep-operator.containerSecurity" -}}
{{- $own := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.securityContext)) -}}
{{- end -}}

{{- define "dataprep-operator.podSecurity" -}}
{{- $own := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .Values.security.fixedUser }}
{{- $user := .Values.runAsUser | int64 }}
{{- $own = merge $own (dict "runAsUser" $user "runAsGroup" $user) }}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.podSecurityContext)) -}}
{{- end -}}

{{- /* Constraints without a labelSelector apply to the operator's pods. */ -}}
{{- define "dataprep-operator.topologySpread" -}}
{{- $pods := dict "matchLabels" (include "dataprep-operator.selector" . | fromYaml) -}}
{{- $usual := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" -}}
{{- range default (list $usual) .Values.topologySpreadConstraints }}
{{- $constraint := ternary . (merge (dict "labelSelector" $pods) .) (hasKey . "labelSelector") }}
- {{ toYaml $constraint | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- /* The operator's permissions in each of its namespaces. docs/rights.md explains them. */ -}}
{{- define "dataprep-operator.scope" -}}
dataprep-operator-scope{{ with .Values.operatorClass }}-{{ . }}{{ end }}
{{- end -}}

{{- define "dataprep-operator.rules" -}}
- apiGroups: [dataprep.io]
  resources: [dataprepjobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [dataprep.io]
  resources: [dataprepcronjobs]
  verbs: [get, list, watch]
- apiGroups: [dataprep.io]
  resources: [dataprepprofiles]
  verbs: [list, watch]
- apiGroups: [dataprep.io]
  resources: [dataprepjobs/status, dataprepcronjobs/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch, list]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "dataprep-operator.scope" . }}]
  verbs: [get, list, update]
{{- if .Values.spark.enabled }}
- apiGroups: [""]
  resources: [services]
  verbs: [get, create]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- if .Values.kueue.enabled }}
- apiGroups: [batch]
  resources: [jobs/status]
  verbs: [patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [list]
- apiGroups: [visibility.kueue.x-k8s.io]
  resources: [localqueues/pendingworkloads]
  verbs: [get]
{{- end }}
{{- end -}}
