# This file builds three images: the operator without numpy and pyarrow, the converter without kopf, and the converter with Spark, which only
# jobs with engine.spark need.
#   docker build --target operator  -t dataprep-operator:0.1.0 .
#   docker build --target converter -t dataprep-converter:0.1.0 .
#   docker build --target spark     -t dataprep-spark:0.1.0 .
# BASE_IMAGE can be any image in which python3 is Python 3.11 or later, with pip and venv.
ARG BASE_IMAGE=python:3.11-slim


FROM ${BASE_IMAGE} AS operator-libraries
COPY requirements/operator.txt /tmp/requirements.txt
# The base image's pip installs into the environment, which doesn't contain pip. This layer, including its byte code, is rebuilt only if the
# requirements change or the build cache lacks the layer. The code is in a separate layer. So if a node already has the libraries, it pulls
# only the code of a new release.
RUN set -eu; python3 -m venv --without-pip /opt/dataprep; \
    python3 -m pip --python /opt/dataprep/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r /tmp/requirements.txt; \
    packages=$(/opt/dataprep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
    find "$packages" -depth -type d -name tests -exec rm -rf {} +; \
    /opt/dataprep/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"


FROM operator-libraries AS operator-code
COPY api/dataprep_api /tmp/packages/dataprep_api
COPY operator/dataprep_operator /tmp/packages/dataprep_operator
# The code is copied, because installing it as a distribution would install the converter's dependencies. Unchecked byte code stays valid on
# a read-only file system, regardless of the files' timestamps.
RUN set -eu; packages=$(/opt/dataprep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
    find /tmp/packages -depth -type d -name __pycache__ -exec rm -rf {} +; \
    mv /tmp/packages/* "$packages"; \
    /opt/dataprep/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"/dataprep_*; \
    mkdir -p "/code$packages" /code/opt/dataprep/bin; \
    mv "$packages"/dataprep_* "/code$packages"; \
    printf '#!/opt/dataprep/bin/python -P\nimport sys\n\nfrom dataprep_operator.__main__ import main\n\nsys.exit(main())\n' > /code/opt/dataprep/bin/dataprep-operator; \
    chmod 0755 /code/opt/dataprep/bin/dataprep-operator


FROM ${BASE_IMAGE} AS operator
# kopf and Hadoop clients need a user name. USER provides a name even if the cluster assigns another uid to the pod.
# The operator never runs a shell, so the shells are removed for security.
RUN echo 'dataprep:x:65532:' >> /etc/group && echo 'dataprep:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd && \
    rm -f /bin/sh /bin/dash /bin/bash /bin/rbash
COPY --from=operator-libraries /opt/dataprep /opt/dataprep
COPY --from=operator-code /code /
ENV PATH=/opt/dataprep/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp USER=dataprep PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["dataprep-operator"]


# Compiles the C loops. The final images don't contain the compiler. A base image without apt must provide `cc`.
FROM ${BASE_IMAGE} AS native
RUN if ! command -v cc > /dev/null; then apt-get update -q && apt-get install -q -y --no-install-recommends gcc libc6-dev; fi
COPY converter/build_native.py /tmp/converter/build_native.py
COPY converter/dataprep_converter/core/*.c /tmp/converter/dataprep_converter/core/
RUN python3 /tmp/converter/build_native.py


FROM ${BASE_IMAGE} AS converter-libraries
COPY requirements/converter.txt /tmp/requirements.txt
# The libraries' headers and tests are removed.
RUN set -eu; python3 -m venv --without-pip /opt/dataprep; \
    python3 -m pip --python /opt/dataprep/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r /tmp/requirements.txt; \
    packages=$(/opt/dataprep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
    find "$packages" -depth -type d \( -name tests -o -path '*/pyarrow/include' -o -path '*/pyarrow/src' \) -exec rm -rf {} +; \
    /opt/dataprep/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"


FROM converter-libraries AS converter-code
COPY api/dataprep_api /tmp/packages/dataprep_api
COPY converter/dataprep_converter /tmp/packages/dataprep_converter
COPY converter/dataprep_reader /tmp/packages/dataprep_reader
COPY --from=native /tmp/converter/dataprep_converter/core/libnative-*.so /tmp/packages/dataprep_converter/core/
RUN set -eu; packages=$(/opt/dataprep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
    find /tmp/packages -depth -type d -name __pycache__ -exec rm -rf {} +; \
    mv /tmp/packages/* "$packages"; \
    /opt/dataprep/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages"/dataprep_*; \
    /opt/dataprep/bin/python -P -c 'import sys; from dataprep_converter.core import native; sys.exit(not native.is_there())'; \
    mkdir -p "/code$packages" /code/opt/dataprep/bin; \
    mv "$packages"/dataprep_* "/code$packages"; \
    for script in dataprep=cli.commands kubectl-dataprep=cli.commands convert_to_records=cli.convert_to_records; do \
        printf '#!/opt/dataprep/bin/python -P\nimport sys\n\nfrom dataprep_converter.%s import main\n\nsys.exit(main())\n' "${script#*=}" > "/code/opt/dataprep/bin/${script%=*}"; \
        chmod 0755 "/code/opt/dataprep/bin/${script%=*}"; \
    done


# The converter's image without its code.
FROM ${BASE_IMAGE} AS converter-runtime
# Kerberos for HDFS. Many base images already contain Kerberos. If the base image has no apt, use --build-arg APT_PACKAGES=
ARG APT_PACKAGES="libgssapi-krb5-2"
RUN if [ -n "${APT_PACKAGES}" ] && ! dpkg --status ${APT_PACKAGES} > /dev/null 2>&1; then \
        apt-get update -q && apt-get install -q -y --no-install-recommends ${APT_PACKAGES} && rm -rf /var/lib/apt/lists/*; \
    fi
RUN echo 'dataprep:x:65532:' >> /etc/group && echo 'dataprep:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd
COPY --from=converter-libraries /opt/dataprep /opt/dataprep
ENV PATH=/opt/dataprep/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp USER=dataprep PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["dataprep"]


FROM converter-runtime AS converter
COPY --from=converter-code /code /


# PySpark and pandas, in a layer on top of the converter's libraries. PySpark is published only as an sdist. The sdist contains the jars, and
# setuptools, in the version of the lock file, only copies the jars. Libraries that the converter also has are left out. Their versions are
# the same, because both lock files follow requirements/dev.txt.
FROM converter-libraries AS spark-libraries
COPY requirements/spark.txt /tmp/spark.txt
RUN set -eu; packages=$(/opt/dataprep/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
    python3 -m venv /tmp/build; \
    awk '/^setuptools==/,!/\\$/' /tmp/spark.txt > /tmp/backend.txt; \
    /tmp/build/bin/python -m pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r /tmp/backend.txt; \
    /tmp/build/bin/python -m pip install --no-cache-dir --no-compile --require-hashes --no-deps --no-build-isolation --target "/spark$packages" \
        -r /tmp/spark.txt; \
    for each in "/spark$packages"/*; do if [ -e "$packages/${each##*/}" ]; then rm -rf "$each"; fi; done; \
    rm -rf "/spark$packages/bin" "/spark$packages"/setuptools* "/spark$packages"/pkg_resources "/spark$packages"/_distutils_hack \
        "/spark$packages"/distutils-precedence.pth "/spark$packages"/pyspark/examples "/spark$packages"/pandas/tests; \
    /opt/dataprep/bin/python -m compileall -q -j 0 -s /spark -p / --invalidation-mode unchecked-hash "/spark$packages"


# The image for jobs with engine.spark. It consists of the converter's image, PySpark (490 MB), pandas (60 MB) and a JRE with its libraries
# (220 MB). The code is copied last, so that a change of the code changes only one small layer.
FROM converter-runtime AS spark
# Java 17 or later, without graphics libraries. If the base image has no apt, it must contain Java. Then use --build-arg JAVA_PACKAGES=
ARG JAVA_PACKAGES="default-jre-headless"
USER root
RUN if [ -n "${JAVA_PACKAGES}" ]; then \
        apt-get update -q && apt-get install -q -y --no-install-recommends ${JAVA_PACKAGES} && apt-get clean && rm -rf /var/lib/apt/lists/*; \
    fi
COPY --from=spark-libraries /spark /
COPY --from=converter-code /code /
USER 65532:65532
